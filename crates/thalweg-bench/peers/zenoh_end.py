"""One end of a Zenoh line: UDP datagrams become samples (entry), samples become UDP datagrams (exit).

The bench has both UDP ends and the only clock; what this costs stands on both sides of its subtraction.

usage: zenoh_end.py entry|exit client|peer connect|listen ENDPOINT UDP_PORT
"""

import json
import socket
import sys
import threading

import zenoh

end, mode, verb, endpoint, port = sys.argv[1:]
key = "thalweg/bench"

config = zenoh.Config()
config.insert_json5("mode", json.dumps(mode))
config.insert_json5("scouting/multicast/enabled", "false")
config.insert_json5("connect/endpoints", json.dumps([endpoint] if verb == "connect" else []))
config.insert_json5("listen/endpoints", json.dumps([endpoint] if verb == "listen" else []))
# On one machine payloads of 3 KiB and more would go through shared memory, which no network offers.
config.insert_json5("transport/shared_memory/enabled", "false")
# The other end may come up later.
config.insert_json5("connect/timeout_ms", "10000")
config.insert_json5("connect/exit_on_failure", "false")

session = zenoh.open(config)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

if end == "entry":
    sock.bind(("127.0.0.1", int(port)))
    # Nothing is dropped at an end: a loss that is counted is the line's.
    publisher = session.declare_publisher(
        key, congestion_control=zenoh.CongestionControl.BLOCK
    )
    while True:
        publisher.put(sock.recv(65535))
else:
    sock.connect(("127.0.0.1", int(port)))
    subscriber = session.declare_subscriber(
        key, lambda sample: sock.send(sample.payload.to_bytes())
    )
    threading.Event().wait()
