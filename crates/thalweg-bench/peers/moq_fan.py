"""One end of a MoQ fan: a source of thirty groups of one frame a second, or sinks that write down when each
came.

An ADU begins with when it was due and its number; a record on standard output is sink, number, due, came. All
times are of the machine's monotonic clock, in nanoseconds, and all numbers big-endian.

usage: moq_fan.py source|sinks ADDRESS SINKS BYTES PACE_NANOS AGE_MICROS
"""

import asyncio
import struct
import sys
import time

import moq

end, address, sinks, length, pace, age = sys.argv[1:]
PATH, TRACK = "thalweg-fan", "adus"
URL = f"https://{address}"
out = sys.stdout.buffer


async def source():
    async with moq.Client(URL, tls_verify=False, websocket_enabled=False) as client:
        broadcast = client.create_broadcast(PATH)
        track = broadcast.publish_track(TRACK)
        broadcast.announce()
        begun, zeros = time.monotonic_ns(), bytes(int(length) - 12)
        number = 0
        while True:
            due = begun + number * int(pace)
            await asyncio.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            track.write_frame(struct.pack("!QI", due, number) + zeros, due // 1000)
            number += 1


async def sink(place):
    async with moq.Client(URL, tls_verify=False, websocket_enabled=False) as client:
        broadcast = await client.announced_broadcast(PATH)
        # How old a group may be when a newer one is there; with the default, none, one that comes after its
        # successor is left out.
        track = await broadcast.subscribe_track(TRACK, moq.Subscription(max_age_us=int(age)))
        async for group in track.groups_as_arrived():
            payload = (await anext(group)).payload
            due, number = struct.unpack_from("!QI", payload)
            out.write(struct.pack("!IIQQ", place, number, due, time.monotonic_ns()))


async def flush():
    while True:
        await asyncio.sleep(0.05)
        out.flush()


async def run():
    if end == "source":
        await source()
    await asyncio.gather(flush(), *(sink(place) for place in range(int(sinks))))


asyncio.run(run())
