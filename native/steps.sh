# This file holds bash functions for the scripts that run on GPU hosts. These scripts source the file.
#
#   OUT    folder for the output of each step, NAME.txt; steps.sh creates it
#   ONLY   regular expression; only steps whose names match it run
#   EXCEPT regular expression; steps whose names match it do not run
#   LIMIT  seconds, default 570; a step that still runs so long after the script's start is interrupted
out=${OUT:-/tmp/epbench-out} limit=${LIMIT:-570} failures="" steps=0
mkdir -p "$out" || exit 1
export EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo GLOO_SOCKET_IFNAME=lo

# library_folder PATTERN prints a folder that has a file matching PATTERN. It looks first in the CUDA toolkit and then
# in the Python packages of NVIDIA.
library_folder() {
  local dir wheels
  wheels=$(python3 -c 'import glob, nvidia, os, sys
for f in sorted(f for p in nvidia.__path__ for f in glob.glob(p + "/**/" + sys.argv[1], recursive=True)): print(os.path.dirname(f))' "$1" 2> /dev/null)
  for dir in /usr/local/cuda/lib64 $wheels; do
    ls "$dir"/$1 > /dev/null 2>&1 && { echo "$dir"; return; }
  done
}
export EPBENCH_NVRTC=${EPBENCH_NVRTC:-$(library_folder 'libnvrtc.so*')}

# unpack ARCHIVE DIR PROGRAM extracts an archive to DIR. It does nothing if DIR has a PROGRAM newer than the archive,
# because this program may be running.
unpack() {
  test ! -f "$1" || test "$2/$3" -nt "$1" || { python3 -m tarfile -e "$1" "$2" && find "$2" -maxdepth 1 -type f -exec touch {} +; }
}

# step SECONDS NAME PATTERN COMMAND... runs a command for at most SECONDS. It prints how the command ended, and the
# last line of its output that matches PATTERN. It fails if the exit status is not one of $accepted, by default 0.
step() {
  local seconds=$1 name=$2 pattern=$3 start=$SECONDS left=$((limit - SECONDS)) word=ok line="" code
  shift 3
  [[ $name =~ ${ONLY:-.} ]] || return 0
  [[ ! $name =~ ${EXCEPT:-^$} ]] || return 0
  if [ $left -lt 10 ]; then
    ended "$name" "FAILED, no time left"
    return 1
  fi
  timeout -s INT -k 10 $((seconds < left ? seconds : left)) "$@" > "$out/$name.txt" 2>&1
  code=$?
  [[ " ${accepted:-0} " == *" $code "* ]] || word="FAILED ($code)"
  test -z "$pattern" || line=$(grep -E "$pattern" "$out/$name.txt" | tail -n 1 | cut -c1-110)
  ended "$name" "$word" "$((SECONDS - start))s  $line"
  test "$word" = ok || { tail -n 20 "$out/$name.txt"; return 1; }
}

# ended NAME WORD REST prints the result of a step. If WORD is not ok, it adds the result to $failures.
ended() {
  local text
  text=$(printf '%-36s %-13s %s' "$@")
  echo "$text"
  steps=$((steps + 1))
  test "$2" = ok || failures+=$text$'\n'
}

# finish ends the script with status 1 if no step ran or one failed, and prints the failed steps again.
finish() {
  test $steps -gt 0 || { echo "no step is named ${ONLY:-}"; exit 1; }
  test -n "$failures" || { echo "$steps steps, all ok"; exit 0; }
  printf '\n%s' "$failures"
  exit 1
}
