# make image builds it with what git says. Without these arguments the image does not know its commit.
ARG COMMIT=unknown
ARG CREATED=unknown

FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download
COPY . .
# After the download, so that another commit does not repeat it.
ARG COMMIT
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags="-s -w \
    -X seckill/internal/buildinfo.commit=${COMMIT}" \
    -o /out/ ./cmd/api ./cmd/lab

# No shell and no libc: the binaries are static, and the service checks itself.
FROM gcr.io/distroless/static-debian12:nonroot
ARG COMMIT
ARG CREATED
LABEL org.opencontainers.image.title="seckill" \
      org.opencontainers.image.description="A reference flash sale in Go, and its laboratory of distributed locks" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="gcr.io/distroless/static-debian12:nonroot"
COPY --from=build /out/api /out/lab /usr/local/bin/
USER nonroot:nonroot
# Loopback, the default, is not reachable from outside a container. Without any settings the service refuses to start:
# it would be in lab mode, for everybody. SECKILL_LAB_ALLOW_REMOTE=1 permits that.
ENV SECKILL_ADDR=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=6 \
    CMD ["/usr/local/bin/api", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/api"]
