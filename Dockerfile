# gnas on a CPU. The demo, whose report lies in runs/demo afterwards:
#   docker build -t gnas . && docker run --rm -v "$PWD/runs:/home/gnas/runs" gnas
# Another command:
#   docker run --rm -v "$PWD:/home/gnas" gnas search molecules.csv --target logP
FROM python:3.12-slim

RUN useradd --create-home gnas
COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY gnas /source/gnas
RUN pip install --no-cache-dir -c /source/constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu "/source[chem]"

USER gnas
WORKDIR /home/gnas
ENTRYPOINT ["gnas"]
CMD ["search", "cluster-mini", "--preset", "fast", "--out", "runs/demo", "--force"]
