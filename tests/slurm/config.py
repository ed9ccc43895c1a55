"""What the private cluster's configuration files say. Pure: settings in, text out.

Every node is this one host under another name and port, with CPUs, memory and GPUs that it need not
have. Nothing here needs cgroups, systemd, a second host or root. An out-of-memory job is therefore
killed as FAILED: the state OUT_OF_MEMORY needs cgroups.
"""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import dataclass
from pathlib import Path

NODES = ("n1", "n2", "n3", "n4")
CPUS_PER_NODE = 8
GPUS_PER_NODE = 4
MEMORY_PER_NODE_MB = 64_000
CLUSTER_NAME = "private"
DATABASE = "slurm_accounting"
# Ports in use, counted from the first: controller, slurmdbd, database, then one for each node.
N_PORTS = 3 + len(NODES)


@dataclass(frozen=True)
class Settings:
    """One private cluster.

    folder: everything the cluster writes; short, as a Unix socket's path may have 108 bytes.
    first_port: the first of N_PORTS consecutive TCP ports on 127.0.0.1.
    enforce_accounts: whether a job needs an account and a quality of service that exist, and their
        limits hold.
    first_job_id: the first that a controller without a state gives out.
    """

    folder: Path
    first_port: int
    enforce_accounts: bool = False
    first_job_id: int = 1

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def controller_state(self) -> Path:
        return self.folder / "state" / "slurmctld"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "run" / "munge.socket"

    @property
    def database_socket(self) -> Path:
        return self.folder / "run" / "mariadb.socket"

    @property
    def slurmdbd_port(self) -> int:
        return self.first_port + 1

    @property
    def database_port(self) -> int:
        return self.first_port + 2

    def node_port(self, node: str) -> int:
        return self.first_port + 3 + NODES.index(node)


def user_name() -> str:
    """Who runs the cluster. The environment's USER may name somebody else."""
    return pwd.getpwuid(os.geteuid()).pw_name


def host_name() -> str:
    return socket.gethostname().split(".")[0]


def slurm_conf(settings: Settings) -> str:
    host, user, folder = host_name(), user_name(), settings.folder
    enforced = "AccountingStorageEnforce=limits,qos" if settings.enforce_accounts else ""
    preemptible = "PreemptMode=REQUEUE GraceTime=5"
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={settings.node_port(node)} "
        f"CPUs={CPUS_PER_NODE} RealMemory={MEMORY_PER_NODE_MB} Gres=gpu:{GPUS_PER_NODE}"
        for node in NODES
    )
    # AccountingStoragePass is the munge socket: AuthInfo does not reach the link to slurmdbd.
    # DefMemPerCPU keeps a job that names no memory from taking its node's whole memory. A requeued
    # job starts cred_expire later; preempt_send_user_signal has a preempted one get the signal of
    # its `--signal` before SIGTERM.
    return f"""\
ClusterName={CLUSTER_NAME}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={settings.first_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={settings.munge_socket},cred_expire=6
StateSaveLocation={settings.controller_state}
SlurmdSpoolDir={folder}/state/%n
SlurmctldPidFile={folder}/run/slurmctld.own-pid
SlurmdPidFile={folder}/run/%n.own-pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log

ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides

SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=20000,bf_interval=2,default_queue_depth=1000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
MaxArraySize=1001
MaxJobCount=20000
MinJobAge=300
FirstJobId={settings.first_job_id}
JobRequeue=1
ReturnToService=2
KillWait=5
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={settings.slurmdbd_port}
AccountingStoragePass={settings.munge_socket}
AccountingStorageTRES=gres/gpu
{enforced}

{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 {preemptible}
PartitionName=eval Nodes=ALL MaxTime=01:00:00 PriorityTier=10 {preemptible}
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=100 PreemptMode=OFF
"""


def gres_conf(devices: list[Path]) -> str:
    """Gives every node the same GPUs, which are these files."""
    files = ",".join(map(str, devices))
    return "".join(f"NodeName={node} Name=gpu File={files}\n" for node in NODES)


def slurmdbd_conf(settings: Settings) -> str:
    # DbdHost must be the name of this host, and DbdAddr says where it listens.
    return f"""\
AuthType=auth/munge
AuthInfo=socket={settings.munge_socket}
DbdHost={host_name()}
DbdAddr=127.0.0.1
DbdPort={settings.slurmdbd_port}
SlurmUser={user_name()}
LogFile={settings.folder}/log/slurmdbd.log
PidFile={settings.folder}/run/slurmdbd.own-pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={settings.database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc={DATABASE}
"""


def database_setup() -> str:
    """SQL that makes slurmdbd's database and its user."""
    users = [f"'slurm'@'{host}'" for host in ("127.0.0.1", "localhost")]
    return f"CREATE DATABASE {DATABASE};" + "".join(
        f"CREATE USER {user} IDENTIFIED BY 'slurm'; GRANT ALL ON {DATABASE}.* TO {user};"
        for user in users
    )
