"""One end of an RTSP line: UDP datagrams become RTP packets in a TCP connection (entry), and those datagrams
(exit).

Through a relay the entry announces and records, and the exit plays; directly the entry connects to the exit
and sends the same frames without a word before. The format is a private one, which a server passes on as it
is. The bench has both UDP ends and the only clock; what this costs stands on both sides of its subtraction.

usage: rtsp_end.py entry|exit direct|through ADDRESS UDP_PORT
source: RFC 2326 (10.12 for frames in a connection), RFC 3550 (5.1)
"""

import socket
import struct
import sys
import threading
import time

end, way, address, port = sys.argv[1:]
host, tcp_port = address.split(":")
URL = f"rtsp://{address}/bench"
RTP_BYTES = 12
FRAME_BYTES = 4
ALIVE_SECONDS = 20

SDP = "\r\n".join(
    [
        "v=0",
        "o=- 0 0 IN IP4 127.0.0.1",
        "s=bench",
        "t=0 0",
        "m=application 0 RTP/AVP 98",
        "a=rtpmap:98 private/90000",
        "a=control:trackID=0",
        "",
    ]
)


def connect():
    """Connects; the other end may come up later."""
    while True:
        try:
            tcp = socket.create_connection((host, int(tcp_port)))
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return tcp
        except ConnectionRefusedError:
            time.sleep(0.05)


class Session:
    """An RTSP session with a server."""

    def __init__(self):
        self.tcp = connect()
        self.file = self.tcp.makefile("rb")
        self.headers = {}
        self.count = 0

    def write(self, method, url, headers, body=""):
        self.count += 1
        lines = [f"{method} {url} RTSP/1.0", f"CSeq: {self.count}"]
        lines += [f"{name}: {value}" for name, value in {**self.headers, **headers}.items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.tcp.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())

    def read(self, first=b""):
        status = int((first + self.file.readline()).split()[1])
        headers = {}
        while line := self.file.readline().strip().decode():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.file.read(int(headers.get("content-length", 0)))
        return status, headers, body.decode()

    def ask(self, method, url, headers, body=""):
        self.write(method, url, headers, body)
        status, headers, body = self.read()
        if "session" in headers:
            self.headers["Session"] = headers["session"].split(";")[0]
        return status, headers, body

    def must(self, method, url, headers, body=""):
        status, headers, body = self.ask(method, url, headers, body)
        if status != 200:
            sys.exit(f"{method} {url}: status {status}")
        return headers, body

    def stay(self):
        """Says now and then that it is still there; the answers come among the frames."""
        while True:
            time.sleep(ALIVE_SECONDS)
            self.write("OPTIONS", URL, {})


udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
INTERLEAVED = "RTP/AVP/TCP;unicast;interleaved=0-1"

if end == "entry":
    udp.bind(("127.0.0.1", int(port)))
    if way == "direct":
        tcp = connect()
    else:
        session = Session()
        session.must("ANNOUNCE", URL, {"Content-Type": "application/sdp"}, SDP)
        session.must("SETUP", URL + "/trackID=0", {"Transport": INTERLEAVED + ";mode=record"})
        session.must("RECORD", URL, {})
        tcp = session.tcp
    sequence = 0
    while True:
        payload = udp.recv(65535)
        stamp = int(time.monotonic() * 90000) & 0xFFFFFFFF
        rtp = struct.pack("!BBHII", 0x80, 98, sequence & 0xFFFF, stamp, 1)
        tcp.sendall(b"$\0" + struct.pack("!H", RTP_BYTES + len(payload)) + rtp + payload)
        sequence += 1

udp.connect(("127.0.0.1", int(port)))
if way == "direct":
    listener = socket.create_server((host, int(tcp_port)))
    file = listener.accept()[0].makefile("rb")
    session = None
else:
    # Nothing is there to be played until the entry records, and a player that asks too early is disconnected.
    while True:
        session = Session()
        status, headers, sdp = session.ask("DESCRIBE", URL, {"Accept": "application/sdp"})
        if status == 200:
            break
        time.sleep(0.05)
    control = sdp.partition("m=application")[2].partition("a=control:")[2].split()[0]
    base = headers.get("content-base", URL + "/")
    track = control if control.startswith("rtsp://") else base.rstrip("/") + "/" + control
    session.must("SETUP", track, {"Transport": INTERLEAVED})
    session.must("PLAY", URL, {})
    threading.Thread(target=session.stay, daemon=True).start()
    file = session.file

while first := file.read(1):
    if first != b"$":
        session.read(first)
        continue
    channel, length = struct.unpack("!BH", file.read(FRAME_BYTES - 1))
    frame = file.read(length)
    if channel == 0:
        udp.send(frame[RTP_BYTES:])
