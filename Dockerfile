# epbench with its GPU worker. The driver comes from the host:
#   docker build -t epbench . && docker run --gpus all --ipc=host -v $PWD:/runs -w /runs epbench sweep
FROM golang:1.26-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make cuda-deps PIP="python3 -m pip"
RUN make build cuda bin/epbench-compile

FROM debian:bookworm-slim
COPY --from=build /src/bin/epbench /src/bin/epbench-cuda /src/bin/epbench-compile /usr/local/bin/
COPY --from=build /src/.cuda/lib64/ /usr/local/lib/epbench/
ENV EPBENCH_NVRTC=/usr/local/lib/epbench
ENTRYPOINT ["epbench"]
CMD ["--help"]
