# The image is the binary, the certificates it needs to call Swrve, and nothing
# else: no shell, no package manager. Time zones are inside the binary.
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/pushq ./cmd/pushq

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/pushq /pushq
# In a container loopback reaches nobody; pushq refuses to listen here without
# http.apiKeys (or http.allowAnonymous).
ENV PUSHQ_HTTP_LISTEN=0.0.0.0:8080
EXPOSE 8080
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/pushq", "health", "--local"]
ENTRYPOINT ["/pushq"]
CMD ["serve"]
