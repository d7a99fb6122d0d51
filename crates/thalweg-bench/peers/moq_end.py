"""One end of a MoQ line: a UDP datagram becomes a group of one frame (entry), and a group a datagram (exit).

A group is a QUIC stream of its own, so each ADU travels alone, as over Thalweg. The bench has both UDP ends
and the only clock; what this costs stands on both sides of its subtraction.

usage: moq_end.py entry|exit connect|listen ADDRESS UDP_PORT
"""

import asyncio
import socket
import sys
import time

import moq

end, verb, address, port = sys.argv[1:]
PATH, TRACK = "thalweg-bench", "adus"

# How old a group may be when a newer one is there, as long as the deadline of ours; with the default, none, a
# group that comes after its successor is left out.
AGE_MICROS_MAX = 60_000_000


def publish(origin, sock):
    broadcast = origin.create_broadcast(PATH)
    track = broadcast.publish_track(TRACK)
    broadcast.announce()

    def take():
        while True:
            try:
                track.write_frame(sock.recv(65535), time.monotonic_ns() // 1000)
            except BlockingIOError:
                return

    asyncio.get_running_loop().add_reader(sock, take)
    return broadcast, track


async def subscribe(url, sock):
    async with moq.Client(url, tls_verify=False, websocket_enabled=False) as client:
        broadcast = await client.announced_broadcast(PATH)
        track = await broadcast.subscribe_track(
            TRACK, moq.Subscription(max_age_us=AGE_MICROS_MAX)
        )
        async for group in track.groups_as_arrived():
            sock.send((await anext(group)).payload)


async def run():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    url = f"https://{address}"
    if end == "entry":
        sock.bind(("127.0.0.1", int(port)))
        sock.setblocking(False)
        if verb == "listen":
            async with moq.Server(address, tls_generate=["localhost"]) as server:
                held = publish(server, sock)
                await server.serve()
        async with moq.Client(url, tls_verify=False, websocket_enabled=False) as client:
            held = publish(client, sock)
            await asyncio.Event().wait()
    sock.connect(("127.0.0.1", int(port)))
    await subscribe(url, sock)


asyncio.run(run())
