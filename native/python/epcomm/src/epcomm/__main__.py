"""`check PACK` needs torchrun or --spawn N. `show PACK` needs no GPU."""

import argparse
import sys

from . import EpcommError, check_pack


def show(path):
    with open(path, "rb") as f:
        i = check_pack(f.read())
    print(f"{path}: {i.arch.decode()}, {i.ranks} ranks, hidden {i.hidden}, {i.experts} experts, top-{i.topk}, "
          f"at most {i.max_tokens} tokens a rank, {i.largest_grid} SMs, digest {i.digest.decode()[:12]}")


def main():
    parser = argparse.ArgumentParser(prog="python -m epcomm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("show", help="print for which shape and GPU a pack was made").add_argument("pack")
    check = commands.add_parser("check", help="compare a pack's results with plain torch, and time its calls")
    check.add_argument("pack")
    check.add_argument("--spawn", type=int, default=0, help="start this many processes here, instead of torchrun")
    check.add_argument("--apart", action="store_true", help="with --spawn: start new processes for each dtype and token count")
    check.add_argument("--device", default="cuda", help="cuda, or cpu for the emulated driver")
    check.add_argument("--calls", type=int, default=100, help="number of eager calls; each call of each rank has a random token count")
    check.add_argument("--replays", type=int, default=100, help="number of replays of three graphs, mixed with eager calls; 0 captures no graph")
    check.add_argument("--dtypes", default="bf16,fp8", help="dtypes to check")
    check.add_argument("--most", type=int, default=256, help="largest number of tokens of a checked call")
    check.add_argument("--tokens", default="1,8,32,128,1024,4096", help="token counts to time; empty for none")
    check.add_argument("--routing", default="even", help="routing class of the timed calls")
    check.add_argument("--routes", help="folder with N.jsonl for each timed token count N, from `epbench workload export`; without it, ids are random")
    check.add_argument("--placement", type=int, default=0, metavar="N", help="allocate N blocks of memory and put the tensors of timed calls into the last block; with 0, torch chooses their memory")
    check.add_argument("--rounds", type=int, default=60, help="number of timed replays; the result is their median")
    check.add_argument("--json", help="write the times to this file")
    arguments = parser.parse_args()
    try:
        if arguments.command == "show":
            show(arguments.pack)
            return 0
        from . import check as checking

        return checking.main(arguments)
    except (EpcommError, OSError, ValueError) as e:
        print(f"epcomm: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
