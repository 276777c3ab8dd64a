package scheduler

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // zones are known on machines without a zone database, too
)

// zoneName is how IANA names are written: Europe/Stockholm, Etc/GMT+5,
// America/Argentina/Buenos_Aires.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`)

// TimeZone returns the IANA time zone with the given name, written exactly as
// in the database. The system's database comes first, the one within the
// program second. Local is refused: what it means depends on the machine.
func TimeZone(name string) (*time.Location, error) {
	if !isZoneName(name) {
		return nil, zoneError(name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, zoneError(name)
	}
	return zone, nil
}

func zoneError(name string) error {
	// Names come from outside: none is repeated at length.
	if name == "" || len(name) > 64 {
		name = "given"
	} else {
		name = fmt.Sprintf("%q", name)
	}
	return fmt.Errorf("the time zone %s is not known: use a name of the IANA database such as Europe/Stockholm or UTC", name)
}

// isZoneName refuses what a system's zone directory has beside the zones of
// the database: other copies (right/ counts leap seconds) and placeholders.
func isZoneName(name string) bool {
	switch name {
	case "Local", "localtime", "posixrules", "Factory":
		return false
	}
	return zoneName.MatchString(name) && !strings.HasPrefix(name, "posix/") && !strings.HasPrefix(name, "right/")
}
