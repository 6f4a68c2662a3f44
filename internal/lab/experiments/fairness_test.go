package experiments

import "testing"

func TestOvertakings(t *testing.T) {
	for name, test := range map[string]struct {
		visits []visit
		want   int
	}{
		"served while the doors close":  {[]visit{{asked: 1, at: 99}, {asked: 2, at: 97, served: true}}, 0},
		"in order":                      {[]visit{{asked: 1, at: 50, served: true}, {asked: 2, at: 60, served: true}, {asked: 3, at: 99}}, 0},
		"the last one first":            {[]visit{{asked: 1, at: 50, served: true}, {asked: 2, at: 60, served: true}, {asked: 3, at: 40, served: true}}, 2},
		"one left while another was in": {[]visit{{asked: 1, at: 99}, {asked: 2, at: 60, served: true}}, 1},
		"one left before another came":  {[]visit{{asked: 1, at: 30}, {asked: 2, at: 60, served: true}}, 0},
		"nobody is served":              {[]visit{{asked: 1, at: 99}, {asked: 2, at: 99}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := overtakings(test.visits, 95); len(found) != test.want {
				t.Errorf("found %d, want %d", len(found), test.want)
			}
		})
	}
}

func TestReadersBehindReaders(t *testing.T) {
	for name, test := range map[string]struct {
		reads         []reading
		behind, level int
	}{
		"together":       {[]reading{{asked: 1, at: 2, left: 90}, {asked: 1, at: 3, left: 90}, {asked: 2, at: 4, left: 80}}, 0, 3},
		"in turns":       {[]reading{{asked: 1, at: 2, left: 30}, {asked: 1, at: 31, left: 60}, {asked: 1, at: 61, left: 90}}, 2, 1},
		"at other times": {[]reading{{asked: 1, at: 2, left: 30}, {asked: 40, at: 41, left: 60}}, 0, 1},
		"to the end":     {[]reading{{asked: 1, at: 2}, {asked: 1, at: 3}}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if found := behindReaders(test.reads); len(found) != test.behind {
				t.Errorf("%d waited, want %d: %v", len(found), test.behind, found)
			}
			if n := concurrentReaders(test.reads); n != test.level {
				t.Errorf("%d at once, want %d", n, test.level)
			}
		})
	}
}

// One round of readers may come in before the writer. A second round takes the writer's turn.
func TestWriterIsStarvedByASecondRound(t *testing.T) {
	const asked = 100
	rounds := func(n int) (all []reading) {
		all = append(all, reading{asked: 90, at: 95, left: 140}) // there before the writer
		for i := range int64(n) {
			all = append(all, reading{asked: 101 + i, at: 110 + i, left: 120 + i})
		}
		return append(all, reading{asked: 105, at: 900, left: 950}) // waits behind the writer
	}
	for n, want := range map[int]int{0: 0, laterReaders: 0, laterReaders + 1: 1, 5 * laterReaders: 1} {
		before := letInBefore(rounds(n), asked, 800)
		if got := starvedWriters(before); before != n || got != want {
			t.Errorf("%d later readers: counted %d, starved %d; want %d", n, before, got, want)
		}
	}
}
