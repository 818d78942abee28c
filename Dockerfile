# A daemon of igbss_stream in a container; docs/operations.md describes how to build and run it.
#
#   docker build -t igbss-stream .

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY igbss_stream igbss_stream
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# Extras of what a daemon reads, and of the live page.
RUN python -m venv /opt/igbss-stream \
    && /opt/igbss-stream/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[compression,lsl,view,xdf]"

FROM python:3.13-slim
COPY --from=build /opt/igbss-stream /opt/igbss-stream
RUN groupadd --gid 10001 igbss \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/igbss-stream --shell /usr/sbin/nologin igbss \
    && install -d -o igbss -g igbss /var/lib/igbss-stream /var/cache/igbss-stream /recordings
ENV PATH=/opt/igbss-stream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/var/cache/igbss-stream \
    IGBSS_HEALTH=127.0.0.1:9464
USER 10001:10001
WORKDIR /var/lib/igbss-stream
# Compile the kernels once. On another kind of processor they are compiled again at the start.
RUN ["python", "-c", "import importlib, pkgutil, igbss_stream.model.kernels as k; from igbss_stream.model.kernels.jit import load_kernels; load_kernels(*(importlib.import_module(f'{k.__name__}.{m.name}').__name__ for m in pkgutil.iter_modules(k.__path__)))"]

# State and recordings outlive the container. The configuration is mounted.
VOLUME ["/var/lib/igbss-stream", "/recordings"]
# The configuration must set health.port to the port of IGBSS_HEALTH. Prints the state of each stream.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection(os.environ['IGBSS_HEALTH'], timeout=4); c.request('GET', '/health'); r = c.getresponse(); print(r.read().decode()); sys.exit(r.status != 200)"]
STOPSIGNAL SIGTERM
# No shell in between: signals reach the daemon.
ENTRYPOINT ["igbss-stream"]
CMD ["run", "/etc/igbss-stream/config.yaml"]
