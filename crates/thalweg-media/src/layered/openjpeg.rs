//! `OpenJPEG`, called with memory in and memory out.
//!
//! The idea: every C object has an owner here that frees it, every callback works on a bounded
//! buffer and cannot panic, and the library's messages are collected as text. A warning counts as
//! an error: the headers are ours, so a warning means damaged packets. No thread pool is compiled
//! in.
//!
//! `jpeg2k`, the safe wrapper, encodes to files only and has no layer rates, hence this.
//!
//! What it does not do: check sizes; its callers do (see [`Shape`]).
//!
//! Sources: `openjpeg.h` 2.5.

#![expect(
    unsafe_code,
    reason = "the JPEG 2000 codec is a C library; this file is the whole of our contact with it"
)]

use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use openjpeg_sys as opj;

use super::header::{CODE_BLOCK_LOG2, COMPONENTS, Shape};
use crate::picture::Yuv420;

/// The longest message text kept, in bytes.
const TEXT_BYTES_MAX: usize = 512;

/// Encodes a picture with one layer for each cumulative target of packet bytes, with PLT markers.
pub(super) fn encode(picture: &Yuv420, shape: Shape, targets: &[usize]) -> Result<Vec<u8>, String> {
    let mut text = Text::default();
    let image = Image::of(picture)?;
    let mut parameters = parameters(shape, targets);
    // With byte budgets set, the output cannot be larger than the samples themselves; the limit is
    // twice that.
    let mut memory = Memory::write_up_to(6 * picture.y().len() + 65_536);
    let stream = Stream::new(&raw mut memory, 0)?;
    // SAFETY: creating a codec has no precondition; null is checked by `Codec::new`.
    let codec = Codec::new(unsafe { opj::opj_create_compress(opj::CODEC_FORMAT::OPJ_CODEC_J2K) })?;
    codec.collect(&raw mut text);
    let options = [c"PLT=YES".as_ptr(), ptr::null()];
    // SAFETY: codec, image and stream are live and owned above; `parameters` and `options`
    // (null-terminated, of static strings) outlive the calls; `memory` and `text` are not touched
    // by Rust until the codec is dropped.
    let done = unsafe {
        opj::opj_setup_encoder(codec.0, &raw mut parameters, image.0) != 0
            && opj::opj_encoder_set_extra_options(codec.0, options.as_ptr()) != 0
            && opj::opj_start_compress(codec.0, image.0, stream.0) != 0
            && opj::opj_encode(codec.0, stream.0) != 0
            && opj::opj_end_compress(codec.0, stream.0) != 0
    };
    drop((stream, codec, image));
    text.verdict(done)?;
    Ok(memory.bytes)
}

/// Decodes a codestream that must have the given shape; gives the three planes.
pub(super) fn decode(codestream: &[u8], shape: Shape) -> Result<[Vec<u8>; 3], String> {
    let mut text = Text::default();
    let mut memory = Memory::read(codestream.to_vec());
    let stream = Stream::new(&raw mut memory, 1)?;
    // SAFETY: creating a codec has no precondition; null is checked by `Codec::new`.
    let codec =
        Codec::new(unsafe { opj::opj_create_decompress(opj::CODEC_FORMAT::OPJ_CODEC_J2K) })?;
    codec.collect(&raw mut text);
    let mut image = Image(ptr::null_mut());
    let mut parameters = MaybeUninit::<opj::opj_dparameters>::zeroed();
    // SAFETY: codec and stream are live and owned above; all-zero bytes are a valid
    // `opj_dparameters` (integers and character arrays) and the library fills in its defaults;
    // `image` takes ownership of what `opj_read_header` allocates; `memory` and `text` are not
    // touched by Rust until the codec is dropped.
    let done = unsafe {
        opj::opj_set_default_decoder_parameters(parameters.as_mut_ptr());
        opj::opj_setup_decoder(codec.0, parameters.as_mut_ptr()) != 0
            && opj::opj_decoder_set_strict_mode(codec.0, 1) != 0
            && opj::opj_read_header(stream.0, codec.0, &raw mut image.0) != 0
            && opj::opj_decode(codec.0, stream.0, image.0) != 0
            && opj::opj_end_decompress(codec.0, stream.0) != 0
    };
    drop((stream, codec));
    text.verdict(done)?;
    image.planes(shape)
}

/// The encoder's parameters for our profile.
fn parameters(shape: Shape, targets: &[usize]) -> opj::opj_cparameters {
    let mut parameters = MaybeUninit::<opj::opj_cparameters>::zeroed();
    // SAFETY: all-zero bytes are a valid `opj_cparameters`: integers, floats, arrays of them,
    // nullable pointers and enums that have a variant of value 0; the library then writes its
    // defaults.
    let mut parameters = unsafe {
        opj::opj_set_default_encoder_parameters(parameters.as_mut_ptr());
        parameters.assume_init()
    };
    parameters.cp_disto_alloc = 1;
    parameters.irreversible = 1;
    parameters.tcp_mct = 0;
    parameters.numresolution = i32::from(shape.levels) + 1;
    parameters.cblockw_init = 1 << CODE_BLOCK_LOG2;
    parameters.cblockh_init = 1 << CODE_BLOCK_LOG2;
    // An empty comment instead of the library's own name and version; the library copies and never
    // writes it.
    parameters.cp_comment = c"".as_ptr().cast_mut();
    parameters.tcp_numlayers = i32::from(shape.layers);
    // The library takes ratios to three full planes. It subtracts from each target the bytes
    // already written (main header, and an empty comment of 6), and from the last one 2 more for
    // the end marker. A quarter of a byte is withheld, since the ratio is a 32-bit float and the
    // result is rounded up.
    let mut header = Vec::new();
    shape.main_header(&mut header);
    let raw = COMPONENTS as f64 * f64::from(shape.width) * f64::from(shape.height);
    let last = targets.len() - 1;
    for (layer, &target) in targets.iter().enumerate() {
        let written = header.len() + 6 + if layer == last { 2 } else { 0 };
        parameters.tcp_rates[layer] = (raw / ((target + written) as f64 - 0.25)) as f32;
    }
    parameters
}

/// An image of the library's, freed when dropped.
struct Image(*mut opj::opj_image_t);

impl Image {
    fn of(picture: &Yuv420) -> Result<Self, String> {
        let planes = picture.planes();
        let mut parameters = planes.map(|plane| {
            let step = picture.width() / plane.width;
            opj::opj_image_cmptparm_t {
                dx: step,
                dy: step,
                w: plane.width,
                h: plane.height,
                x0: 0,
                y0: 0,
                prec: 8,
                bpp: 8,
                sgnd: 0,
            }
        });
        // SAFETY: `parameters` holds as many entries as announced and outlives the call.
        let image = Self(unsafe {
            opj::opj_image_create(
                COMPONENTS as u32,
                parameters.as_mut_ptr(),
                opj::OPJ_COLOR_SPACE::OPJ_CLRSPC_SYCC,
            )
        });
        if image.0.is_null() {
            return Err("no memory for the image".to_owned());
        }
        // SAFETY: `image` is live and exclusively ours; its `comps` are the three components just
        // asked for, each with `w · h` samples allocated, which is the length of the plane.
        unsafe {
            (*image.0).x1 = picture.width();
            (*image.0).y1 = picture.height();
            for (index, plane) in planes.iter().enumerate() {
                let data = (*(*image.0).comps.add(index)).data;
                let data = core::slice::from_raw_parts_mut(data, plane.samples.len());
                for (sample, &value) in data.iter_mut().zip(plane.samples) {
                    *sample = i32::from(value);
                }
            }
        }
        Ok(image)
    }

    /// Copies the planes out, if the image has the shape that was announced.
    fn planes(&self, shape: Shape) -> Result<[Vec<u8>; 3], String> {
        // SAFETY: `self.0` is null or a live image; a non-null `comps` points at `numcomps` components.
        let components = unsafe {
            self.0
                .as_ref()
                .filter(|image| image.numcomps as usize == COMPONENTS && !image.comps.is_null())
                .map(|image| core::slice::from_raw_parts(image.comps, COMPONENTS))
        }
        .ok_or("the decoded image has not three components")?;
        let mut planes = [const { Vec::new() }; 3];
        for (index, (plane, component)) in planes.iter_mut().zip(components).enumerate() {
            let step = if index == 0 { 1 } else { 2 };
            let due = (shape.width / step, shape.height / step);
            if (component.w, component.h) != due || component.data.is_null() {
                return Err(format!(
                    "component {index} was decoded as {}x{}, not {}x{}",
                    component.w, component.h, due.0, due.1
                ));
            }
            // SAFETY: the library allocates `w · h` samples for a component that it has decoded,
            // and `data` is set.
            let samples = unsafe {
                core::slice::from_raw_parts(component.data, due.0 as usize * due.1 as usize)
            };
            *plane = samples.iter().map(|&n| n.clamp(0, 255) as u8).collect();
        }
        Ok(planes)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the pointer is null, which the library accepts, or an image that nobody else owns.
        unsafe { opj::opj_image_destroy(self.0) }
    }
}

/// A codec of the library's, freed when dropped.
struct Codec(*mut opj::opj_codec_t);

impl Codec {
    fn new(codec: *mut opj::opj_codec_t) -> Result<Self, String> {
        if codec.is_null() {
            Err("no memory for the codec".to_owned())
        } else {
            Ok(Self(codec))
        }
    }

    /// Collects errors and warnings in `text`, which must outlive the codec.
    fn collect(&self, text: *mut Text) {
        // SAFETY: the codec is live; the handler matches the library's signature and is given
        // `text`, which the callers keep alive and untouched until the codec is dropped.
        unsafe {
            opj::opj_set_error_handler(self.0, Some(gather), text.cast());
            opj::opj_set_warning_handler(self.0, Some(gather), text.cast());
        }
    }
}

impl Drop for Codec {
    fn drop(&mut self) {
        // SAFETY: the pointer is a live codec that nobody else owns.
        unsafe { opj::opj_destroy_codec(self.0) }
    }
}

/// Messages of the library.
#[derive(Default)]
struct Text {
    text: String,
}

impl Text {
    /// Returns success if the calls succeeded without a message.
    fn verdict(self, done: bool) -> Result<(), String> {
        match (done, self.text.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => Err("failed without a message".to_owned()),
            (_, false) => Err(self.text),
        }
    }
}

/// The message handler. It cannot panic: it appends to a string, within bounds.
unsafe extern "C" fn gather(message: *const c_char, text: *mut c_void) {
    // SAFETY: the library passes back the pointer given to it, to a live `Text`, and a
    // null-terminated message that lives for the call; both are checked for null.
    let (text, message) = unsafe {
        let Some(text) = text.cast::<Text>().as_mut() else {
            return;
        };
        if message.is_null() {
            return;
        }
        (text, CStr::from_ptr(message))
    };
    if text.text.len() < TEXT_BYTES_MAX {
        let message = message.to_string_lossy();
        if !text.text.is_empty() {
            text.text.push_str("; ");
        }
        text.text.push_str(message.trim());
    }
}

/// A byte buffer that a stream reads from or writes to.
struct Memory {
    bytes: Vec<u8>,
    position: usize,
    /// Writing may not go beyond this length.
    bound: usize,
}

impl Memory {
    fn read(bytes: Vec<u8>) -> Self {
        let bound = bytes.len();
        Self {
            bytes,
            position: 0,
            bound,
        }
    }

    fn write_up_to(bound: usize) -> Self {
        Self {
            bytes: Vec::new(),
            position: 0,
            bound,
        }
    }

    /// Moves to a position within the bound; returns whether it did.
    fn seek(&mut self, position: i64) -> bool {
        match usize::try_from(position) {
            Ok(position) if position <= self.bound => {
                self.position = position;
                true
            }
            _ => false,
        }
    }
}

/// A stream of the library's over a [`Memory`], freed when dropped.
struct Stream(*mut opj::opj_stream_t);

impl Stream {
    /// Opens a stream on `memory`, which must outlive it; `input` is 1 for reading, 0 for writing.
    fn new(memory: *mut Memory, input: i32) -> Result<Self, String> {
        // SAFETY: creating a stream has no precondition; null is checked below.
        let stream = unsafe { opj::opj_stream_create(65_536, input) };
        if stream.is_null() {
            return Err("no memory for the stream".to_owned());
        }
        // SAFETY: the stream is live; the functions match the library's signatures and are given
        // `memory`, which the callers keep alive and untouched until the stream is dropped; no free
        // function is set.
        unsafe {
            opj::opj_stream_set_user_data(stream, memory.cast(), None);
            opj::opj_stream_set_user_data_length(stream, (*memory).bytes.len() as u64);
            opj::opj_stream_set_read_function(stream, Some(read));
            opj::opj_stream_set_write_function(stream, Some(write));
            opj::opj_stream_set_skip_function(stream, Some(skip));
            opj::opj_stream_set_seek_function(stream, Some(seek));
        }
        Ok(Self(stream))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the pointer is a live stream that nobody else owns.
        unsafe { opj::opj_stream_destroy(self.0) }
    }
}

/// What the library's read function returns at the end of data.
const END: usize = usize::MAX;

unsafe extern "C" fn read(buffer: *mut c_void, bytes: usize, memory: *mut c_void) -> usize {
    // SAFETY: the library passes back the pointer given to it, to a live `Memory` nobody else uses
    // meanwhile.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    let rest = memory.bytes.get(memory.position..).unwrap_or(&[]);
    let count = rest.len().min(bytes);
    if count == 0 {
        return END;
    }
    // SAFETY: `buffer` has room for `bytes ≥ count`, `rest` holds at least `count`, and they are
    // distinct allocations.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), buffer.cast(), count) };
    memory.position += count;
    count
}

unsafe extern "C" fn write(buffer: *mut c_void, bytes: usize, memory: *mut c_void) -> usize {
    // SAFETY: the library passes back the pointer given to it, to a live `Memory` nobody else uses
    // meanwhile.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    let Some(end) = memory
        .position
        .checked_add(bytes)
        .filter(|&end| end <= memory.bound)
    else {
        return END;
    };
    if memory.bytes.len() < end {
        memory.bytes.resize(end, 0);
    }
    // SAFETY: `buffer` holds `bytes`, and `position + bytes = end ≤ len` by the lines above;
    // distinct allocations.
    unsafe {
        let target = memory.bytes.as_mut_ptr().add(memory.position);
        ptr::copy_nonoverlapping(buffer.cast_const().cast(), target, bytes);
    }
    memory.position = end;
    bytes
}

unsafe extern "C" fn skip(bytes: i64, memory: *mut c_void) -> i64 {
    // SAFETY: the library passes back the pointer given to it, to a live `Memory` nobody else uses
    // meanwhile.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    // A buffer's length never exceeds `i64`, so the position is not lost.
    let to = i64::try_from(memory.position).map(|at| at.saturating_add(bytes));
    if to.is_ok_and(|to| memory.seek(to)) {
        bytes
    } else {
        -1
    }
}

unsafe extern "C" fn seek(position: i64, memory: *mut c_void) -> i32 {
    // SAFETY: the library passes back the pointer given to it, to a live `Memory` nobody else uses
    // meanwhile.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    i32::from(memory.seek(position))
}
