# gnas on a CPU. The demo, whose report lies in runs/demo afterwards:
#   docker build -t gnas . && docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" gnas
# Another command:
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" gnas search molecules.csv --target logP
# Files are read and written in the current folder, and belong to you.
FROM python:3.12-slim

# What rdkit draws molecules with.
RUN apt-get update && apt-get install -y --no-install-recommends libxrender1 libxext6 libexpat1 && rm -rf /var/lib/apt/lists/*

COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY gnas /source/gnas
# An index that has torch without CUDA makes the image 3 GB smaller: docker build --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL=
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[chem]"

# Any user can run it: there is a home for caches, and a folder to work in.
ENV HOME=/tmp USER=gnas
RUN mkdir -m 1777 /data
USER 1000
WORKDIR /data
ENTRYPOINT ["gnas"]
CMD ["search", "cluster-mini", "--time", "100s", "--out", "runs/demo", "--force"]
