"""Makes `import torch` work on a host that has none of CUDA's libraries.

    python without_cuda.py [FOLDER]

PyTorch from PyPI for x86-64 loads 13 CUDA libraries of 3 GB when it is imported. This program writes libraries of the
same names, whose functions all return cudaErrorNoDevice. By default it writes them to PyTorch's folder torch/lib,
where PyTorch looks first; FOLDER names another folder. The program replaces no library that already exists. It needs
cc, nm and readelf."""

import glob
import importlib.util
import os
import re
import subprocess
import sys

NO_DEVICE = 100  # cudaErrorNoDevice, also CUDA_ERROR_NO_DEVICE
# In most CUDA libraries, the version of the symbols has the library's name. NVSHMEM's library is an exception.
VERSIONS = {"libnvshmem_host.so.3": "NVSHMEM"}
PREFIXES = {"libnccl": "nccl", "libcufile": "cuFile", "libcusparseLt": "cusparseLt", "libcurand": "curand"}
CUDA = re.compile(r"NEEDED.*\[(lib(?:cu|nccl|nvshmem)\w*\.so[.\d]*)\]")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(libraries):
    """Returns the names of the CUDA libraries that the files need. The second result lists the needed functions by
    symbol version."""
    names, functions = set(), {}
    for path in libraries:
        names.update(CUDA.findall(output("readelf", "-dW", path)))
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            functions.setdefault(version.lstrip("@"), set()).add(name)
    return names - {"libcuda.so.1"}, functions  # the repository has an emulated libcuda.so.1


def stand_in(name, functions, folder):
    """Writes a library `name` with the functions that PyTorch needs from it."""
    version = VERSIONS.get(name, name)
    wanted, script = functions.get(version, set()), f"{version} {{ *; }};"
    if not wanted:
        prefix = PREFIXES[name.partition(".")[0]]
        wanted, script = {f for f in functions.get("", ()) if f.startswith(prefix)} or {prefix + "None"}, "{ global: *; };"
    source, names = os.path.join(folder, name + ".c"), os.path.join(folder, name + ".map")
    with open(source, "w") as f:
        f.writelines(f"int {function}(void) {{ return {NO_DEVICE}; }}\n" for function in sorted(wanted))
    with open(names, "w") as f:
        f.write(script + "\n")
    output("cc", "-shared", "-fPIC", "-fno-builtin", "-w", "-Wl,-soname," + name, "-Wl,--version-script=" + names,
           "-o", os.path.join(folder, name), source)
    os.remove(source)
    os.remove(names)


def main():
    spec = importlib.util.find_spec("torch")
    if spec is None:
        sys.exit("without_cuda.py: this Python has no PyTorch: pip install --no-deps torch")
    lib = os.path.join(os.path.dirname(spec.origin), "lib")
    folder = sys.argv[1] if len(sys.argv) > 1 else lib
    names, functions = needed(glob.glob(lib + "/lib*torch*.so") + glob.glob(lib + "/libc10*.so"))
    there = [n for n in sorted(names) if os.path.exists(os.path.join(folder, n))]
    if there:
        sys.exit(f"without_cuda.py: {folder} has {', '.join(there)} already")
    for name in sorted(names):
        stand_in(name, functions, folder)
    print(f"{len(names)} libraries in {folder}")


if __name__ == "__main__":
    main()
