"""One end of a Zenoh fan: a source that puts thirty samples a second, or sinks that write down when each
came.

An ADU begins with when it was due and its number; a record on standard output is sink, number, due, came. All
times are of the machine's monotonic clock, in nanoseconds, and all numbers big-endian.

usage: zenoh_fan.py source|sinks ENDPOINT SINKS BYTES PACE_NANOS CERTIFICATE
"""

import json
import struct
import sys
import threading
import time

import zenoh

end, endpoint, sinks, length, pace, certificate = sys.argv[1:]
key = "thalweg/fan"

config = zenoh.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("scouting/multicast/enabled", "false")
config.insert_json5("connect/endpoints", json.dumps([endpoint]))
# On one machine payloads of 3 KiB and more would go through shared memory, which no network offers.
config.insert_json5("transport/shared_memory/enabled", "false")
# The relay may come up later.
config.insert_json5("connect/timeout_ms", "10000")
config.insert_json5("connect/exit_on_failure", "false")
if certificate:
    config.insert_json5("transport/link/tls/root_ca_certificate", json.dumps(certificate))

if end == "source":
    session = zenoh.open(config)
    publisher = session.declare_publisher(key)
    begun, zeros = time.monotonic_ns(), bytes(int(length) - 12)
    number = 0
    while True:
        due = begun + number * int(pace)
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        publisher.put(struct.pack("!QI", due, number) + zeros)
        number += 1

out, lock = sys.stdout.buffer, threading.Lock()


def sink(place):
    def take(sample):
        came = time.monotonic_ns()
        due, number = struct.unpack_from("!QI", sample.payload.to_bytes())
        with lock:
            out.write(struct.pack("!IIQQ", place, number, due, came))

    return take


sessions = [zenoh.open(config) for _ in range(int(sinks))]
subscribers = [s.declare_subscriber(key, sink(place)) for place, s in enumerate(sessions)]
while True:
    time.sleep(0.05)
    with lock:
        out.flush()
