# A real Slurm cluster of two nodes, n1 and n2, on this one machine: munged, slurmctld and two slurmd with their files
# in a temporary folder, on loopback. To be sourced by tests, as root:
#
#   . "$(dirname "$0")/cluster.sh"
#   start_cluster            # exits 77 where Slurm is not installed; ends the daemons when the shell exits
#   srun -N2 -n4 --mpi=none hostname

skip() {
  echo "skipped: $1"
  exit 77
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits for a command to succeed, at most this many seconds.
await() {
  local seconds=$1 tries
  shift
  for ((tries = 0; tries < seconds * 5; ++tries)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.2
  done
  echo "gave up after $seconds s: $*" >&2
  return 1
}

# The last started ends first: the others need munged until the end.
end_cluster() {
  local pid pids=
  trap - EXIT
  scancel --user=root 2>/dev/null
  await 10 sh -c '[ -z "$(squeue -h)" ]'
  for pid in $CLUSTER_PIDS; do pids="$pid $pids"; done
  for pid in $pids; do
    kill "$pid" 2>/dev/null
    await 5 sh -c "! kill -0 $pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  if [ "$1" != 0 ]; then tail -n 20 "$CLUSTER"/*.log; fi
  rm -rf "$CLUSTER"
}

start_cluster() {
  local tool
  for tool in munged slurmctld slurmd srun sbatch mpirun python3; do
    PATH=$PATH:/usr/sbin command -v $tool >/dev/null || skip "$tool is not installed (Debian: slurm-wlm munge openmpi-bin)"
  done
  [ "$(id -u)" = 0 ] || skip "slurmd starts tasks as root only"

  PATH=$PATH:/usr/sbin
  CLUSTER=$(mktemp -d /tmp/partita-slurm.XXXXXX)
  CLUSTER_PIDS=
  trap 'end_cluster $?' EXIT
  chmod 755 "$CLUSTER"
  mkdir "$CLUSTER"/{state,spooln1,spooln2,munge}
  chmod 700 "$CLUSTER/munge"

  # munge checks that its folders belong to the user that it runs as.
  dd if=/dev/urandom of="$CLUSTER/munge/key" bs=128 count=1 status=none
  chmod 600 "$CLUSTER/munge/key"
  local socket=$CLUSTER/munge.socket
  munged --foreground --force --key-file="$CLUSTER/munge/key" --socket="$socket" --pid-file="$CLUSTER/munge/pid" \
    --log-file="$CLUSTER/munge/munge.log" --seed-file="$CLUSTER/munge/seed" --num-threads=2 >"$CLUSTER/munged.log" 2>&1 &
  CLUSTER_PIDS+=" $!"

  export SLURM_CONF=$CLUSTER/slurm.conf
  cat >"$SLURM_CONF" <<END
ClusterName=partita
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$socket
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
  await 10 test -S "$socket" || exit 1
  slurmctld -D -i >"$CLUSTER/slurmctld.log" 2>&1 &
  CLUSTER_PIDS+=" $!"
  local node
  for node in n1 n2; do
    slurmd -D -N $node >"$CLUSTER/slurmd-$node.log" 2>&1 &
    CLUSTER_PIDS+=" $!"
  done
  await 30 sh -c '[ "$(sinfo -h -t idle -o %D)" = 2 ]' || exit 1
}
