"""Which TCP ports a process listens on. Only reads /proc; used by programs and by tests."""

import os


def listening_ports(pid="self"):
    """The TCP ports on which a process listens, sorted, each once."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        if os.path.exists(table):
            with open(table) as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and fields[9] in inodes:
                        ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return sorted(ports)
