"""The `relaydeck` of a shell: has the fork server run the command, whose files, folder and environment are its own.

It is a program, and imports little: `python -I -S forked_relaydeck.py ARGUMENTS`, with the number of the control socket
in FORK_SERVER.
"""

import json
import os
import signal
import socket
import sys

control = socket.socket(fileno=int(os.environ.pop("FORK_SERVER")))
status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
message = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), False]).encode()
socket.send_fds(control, [message], [0, 1, 2, theirs.fileno()])
theirs.close()
command = int(status.recv(100))
for each in (signal.SIGTERM, signal.SIGINT):
    signal.signal(each, lambda number, _: os.kill(command, number))
code = int(status.recv(100))
sys.exit(code if code >= 0 else 128 - code)
