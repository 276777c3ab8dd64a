package testenv

import "os"

// WithoutProxies makes this process speak to loopback addresses itself, whatever proxies
// its environment names. It is for TestMain.
func WithoutProxies() {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Unsetenv(name)
	}
}
