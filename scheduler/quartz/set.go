package quartz

import "math/bits"

// set holds small numbers, 0 to 63, one bit each.
type set uint64

func (s *set) add(value int) {
	*s |= 1 << value
}

func (s set) has(value int) bool {
	return s>>value&1 == 1
}

func (s set) first() int {
	return bits.TrailingZeros64(uint64(s))
}

func (s set) last() int {
	return bits.Len64(uint64(s)) - 1
}

// next returns the smallest member that is at least from.
func (s set) next(from int) (value int, found bool) {
	rest := s >> from << from
	return rest.first(), rest != 0
}

// The years that an expression can name, as in Quartz.
const (
	firstYear = 1970
	lastYear  = 2199
)

// yearSet holds years from firstYear to lastYear, one bit each.
type yearSet [(lastYear-firstYear)/64 + 1]uint64

func (y *yearSet) add(year int) {
	index := year - firstYear
	y[index/64] |= 1 << (index % 64)
}

func (y *yearSet) has(year int) bool {
	if year < firstYear || year > lastYear {
		return false
	}
	index := year - firstYear
	return y[index/64]>>(index%64)&1 == 1
}
