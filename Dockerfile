# A single static binary. Alpine's Rust builds for musl, so nothing is linked at run time.
FROM rust:1.95.0-alpine AS build
# For the C code of SQLite, the allocator and TLS.
RUN apk add --no-cache gcc make musl-dev
WORKDIR /src
COPY . .
# The image has the toolchain. The pinned one would be downloaded again for its linters.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN cargo build --release --locked -p driftq-cli && mkdir /data

FROM scratch
COPY --from=build /src/target/release/driftq /driftq
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
VOLUME /data
EXPOSE 8080
# Without an API key the server refuses to listen on other addresses than loopback: set
# DRIFTQ_API_KEY_FILE, or pass --insecure.
ENV DRIFTQ_LISTEN=0.0.0.0:8080 DRIFTQ_DATA=/data
ENTRYPOINT ["/driftq"]
CMD ["serve"]
