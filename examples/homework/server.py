"""Server of the teacher: answers each packet with its number, the first four bytes."""

import socket
import sys

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", int(sys.argv[1])))
while True:
    packet, client = server.recvfrom(65536)
    server.sendto(packet[:4], client)
