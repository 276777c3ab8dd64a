package scheduler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTimeZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"UTC", "Europe/Stockholm", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "Etc/GMT-14", "EST5EDT",
		"America/Port-au-Prince", "GB", "Etc/UTC",
	} {
		zone, err := TimeZone(name)
		require.NoError(t, err, name)
		require.Equal(t, name, zone.String())
	}
	for _, name := range []string{
		"", "Local", "local", "localtime", "posixrules", "Factory", "posix/Europe/Stockholm", "right/Europe/Stockholm",
		"../x", "..", "Europe/../Europe/Stockholm", "/etc/localtime", "/usr/share/zoneinfo/UTC", `\Europe\Stockholm`,
		"Europe", "Europe/", "Europe//Stockholm", "europe/stockholm", "utc", "Europe/Stockholm ", "Europe/Stockholm\x00",
		"CEST", "GMT+2", "+02:00", "Mars/Olympus", "tzdata.zi", "zone.tab", "leapseconds", "\u017ftockholm",
		strings.Repeat("A", 10_000),
	} {
		zone, err := TimeZone(name)
		require.Nil(t, zone, name)
		require.ErrorContains(t, err, "use a name of the IANA database such as Europe/Stockholm or UTC", name)
		require.Less(t, len(err.Error()), 400, "no echo of long names")
	}
}
