"""A search strategy for epbench that lets Optuna's TPE choose the configs.

    pip install optuna==5.0.0
    epbench replay recordings --strategy "auto,exec:python3 examples/search/tpe.py" --budget 50

For Optuna the kernel is one more parameter.
"""

import json
import sys

import optuna


def ask(study, space):
    trial = study.ask()
    name = trial.suggest_categorical("kernel", [k["name"] for k in space["kernels"]])
    kernel = next(k for k in space["kernels"] if k["name"] == name)
    values = {p["name"]: trial.suggest_categorical(name + "." + p["name"], p["values"]) for p in kernel["parameters"]}
    return trial, {"kernel": name, "values": values}


def main():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = json.loads(sys.stdin.readline())
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=space["seed"] % 2**31))
    left, idle = space["left"], 0
    while left > 0 and idle < 90:
        trial, config = ask(study, space)
        print(json.dumps({"ask": [config]}), flush=True)
        answer = json.loads(sys.stdin.readline())
        result = answer["results"][0]
        if "ratio" in result:
            study.tell(trial, result["ratio"])
        else:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        idle = idle + 1 if answer["left"] == left else 0
        left = answer["left"]
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
