"""Storage over the network, from /proc/mounts and the disks below /sys."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils._storage import mounted, storage
from hypothesis import given
from hypothesis import strategies as st

from tests.support.host_reports import plant

MOUNTS = """/dev/sda1 / ext4 rw 0 0
filer:/data /data nfs4 rw,relatime,vers=4.2,proto=rdma,port=20049,clientaddr=10.55.0.1,addr=10.55.0.200 0 0
filer:/home /home nfs rw,proto=tcp,mountaddr=10.1.0.9,addr=10.1.0.9 0 0
10.60.0.9@o2ib:10.60.0.10@o2ib:/scratch /lustre lustre rw,flock 0 0
10.70.0.1:6789,10.70.0.2:6789:/ /ceph ceph rw,name=admin 0 0
server.site:/volume /gluster fuse.glusterfs rw 0 0
tmpfs /run tmpfs rw 0 0
"""


def test_shares_and_parallel_file_systems() -> None:
    assert list(mounted(MOUNTS)) == [
        {"kind": "nfs4", "server": "10.55.0.200", "mount": "/data", "rdma": True},
        {"kind": "nfs", "server": "10.1.0.9", "mount": "/home", "rdma": False},
        {"kind": "lustre", "server": "10.60.0.9", "mount": "/lustre", "rdma": True},
        {"kind": "ceph", "server": "10.70.0.1", "mount": "/ceph", "rdma": False},
    ]


def test_disks_over_a_fabric(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "class/nvme/nvme0/transport": "pcie\n",
            "class/nvme/nvme0/address": "0000:01:00.0\n",
            "class/nvme/nvme1/transport": "rdma\n",
            "class/nvme/nvme1/address": "traddr=10.55.0.200,trsvcid=4420,src_addr=10.55.0.1\n",
            "class/iscsi_connection/connection1:0/address": "10.56.0.9\n",
        },
    )
    assert storage("", str(tmp_path)) == [
        {"kind": "nvme-rdma", "server": "10.55.0.200", "mount": "nvme1", "rdma": True},
        {"kind": "iscsi", "server": "10.56.0.9", "mount": "connection1:0", "rdma": False},
    ]


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    assert all(entry["server"] for entry in mounted(text))
