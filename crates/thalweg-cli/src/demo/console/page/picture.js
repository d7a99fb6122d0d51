// Draws planar 4:2:0 pictures on a canvas.
//
// Frame: kind u8, width u16, height u16 (big endian), then Y, Cb and Cr in studio range (BT.601).
// The browser converts the colours itself where it has WebCodecs; in JavaScript that costs ten times as much.

export class Picture {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.image = null;
  }

  show(buffer) {
    const view = new DataView(buffer);
    const width = view.getUint16(1);
    const height = view.getUint16(3);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.image = null;
    }
    if (typeof VideoFrame === "function") {
      const frame = new VideoFrame(new Uint8Array(buffer, 5), {
        format: "I420",
        codedWidth: width,
        codedHeight: height,
        timestamp: 0,
        colorSpace: { matrix: "smpte170m", primaries: "smpte170m", transfer: "smpte170m", fullRange: false },
      });
      this.context.drawImage(frame, 0, 0);
      frame.close();
      return;
    }
    this.image ??= this.context.createImageData(width, height);
    const luma = new Uint8Array(buffer, 5, width * height);
    const blue = new Uint8Array(buffer, 5 + width * height, (width * height) / 4);
    const red = new Uint8Array(buffer, 5 + (width * height * 5) / 4, (width * height) / 4);
    convert(this.image.data, luma, blue, red, width, height);
    this.context.putImageData(this.image, 0, 0);
  }
}

// Uint8ClampedArray clamps and rounds, so only the matrix is needed.
function convert(out, luma, blue, red, width, height) {
  for (let row = 0, at = 0; row < height; row += 1) {
    const chroma = (row >> 1) * (width >> 1);
    for (let column = 0; column < width; column += 1, at += 1) {
      const y = 1.164 * (luma[at] - 16);
      const cb = blue[chroma + (column >> 1)] - 128;
      const cr = red[chroma + (column >> 1)] - 128;
      out[4 * at] = y + 1.596 * cr;
      out[4 * at + 1] = y - 0.392 * cb - 0.813 * cr;
      out[4 * at + 2] = y + 2.017 * cb;
      out[4 * at + 3] = 255;
    }
  }
}
