"""Client of a student: sends one packet at a time, and repeats it until it is acknowledged."""

import socket
import sys

TIMEOUT_S = 0.1
PAYLOAD = bytes(996)

host, port, packets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(TIMEOUT_S)
for number in range(packets):
    packet = number.to_bytes(4, "big") + PAYLOAD
    answer = b""
    while answer != packet[:4]:
        client.sendto(packet, (host, port))
        try:
            answer = client.recv(65536)
        except TimeoutError:
            pass
