# One static binary and nothing else. Alpine's Rust builds for musl, so nothing is linked at run time.
FROM rust:1.95.0-alpine AS build
# For the C of SQLite, of the allocator and of TLS.
RUN apk add --no-cache gcc make musl-dev
WORKDIR /src
COPY . .
# The image has the toolchain; the pinned one would be fetched again for its linters.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN cargo build --release --locked -p driftq-cli && mkdir /data

FROM scratch
COPY --from=build /src/target/release/driftq /driftq
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
VOLUME /data
EXPOSE 8080
# It refuses to listen to other machines without a key: give DRIFTQ_API_KEY_FILE, or say --insecure.
ENV DRIFTQ_LISTEN=0.0.0.0:8080 DRIFTQ_DATA=/data
ENTRYPOINT ["/driftq"]
CMD ["serve"]
