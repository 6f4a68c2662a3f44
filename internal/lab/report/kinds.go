package report

import (
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// spanKind is a kind of span: what stands in its bar, what the legend says of it, and its bar in a terminal.
type spanKind struct {
	kind        finding.SpanKind
	word, means i18n.Text
	bar         barEnds
}

type barEnds struct{ left, fill, right rune }

// spanKinds are in the order of the legend.
func spanKinds() []spanKind {
	return []spanKind{
		{finding.Waits, i18n.F("waits"), i18n.F("waits for the lock"), barEnds{'├', '┄', '┤'}},
		{finding.Held, i18n.F("holds"), i18n.F("holds the lock"), barEnds{'┣', '━', '┫'}},
		{finding.Believes, i18n.F("believes"), i18n.F("believes so, and holds it no more"), barEnds{'┣', '╍', '┫'}},
		{finding.Reads, i18n.F("reads"), i18n.F("holds it as a reader"), barEnds{'├', '─', '┤'}},
		{finding.Transacts, i18n.F("transaction"), i18n.F("transaction, to its commit"), barEnds{'├', '─', '┤'}},
		{finding.Stored, i18n.F("stored"), i18n.F("the store has the key"), barEnds{'╠', '═', '╣'}},
		{finding.Paused, i18n.F("paused"), i18n.F("stands still"), barEnds{'░', '░', '░'}},
		{finding.Down, i18n.F("down"), i18n.F("dead or cut off"), barEnds{'▓', '▓', '▓'}},
	}
}

func spanKindOf(kind finding.SpanKind) (of spanKind) {
	for _, k := range spanKinds() {
		if k.kind == kind {
			of = k
		}
	}
	return of
}

// markKind is a kind of mark: its sign in a terminal, what stands beside it, and what the legend says of it.
type markKind struct {
	kind        finding.MarkKind
	sign        rune
	word, means i18n.Text
}

func markKinds() []markKind {
	return []markKind{
		{finding.ReadsStock, '○', i18n.F("read"), i18n.F("reads")},
		{finding.WritesStock, '●', i18n.F("write"), i18n.F("writes")},
		{finding.Refuses, '⊘', i18n.F("refused"), i18n.F("is refused or gives up")},
		{finding.Releases, '▽', i18n.F("release"), i18n.F("releases")},
		{finding.Expires, '◔', i18n.F("expired"), i18n.F("lease runs out")},
		{finding.Deletes, '×', i18n.F("deleted"), i18n.F("key deleted")},
		{finding.Killed, '†', i18n.F("killed"), i18n.F("killed")},
		{finding.Renews, '↻', i18n.Plain(string(finding.Renews)), i18n.F("lease renewed")},
		{finding.Told, '◇', i18n.F("told"), i18n.F("learns that it holds no longer")},
		{finding.Wakes, '△', i18n.F("wakes"), i18n.F("is woken")},
		{finding.Notes, '◆', i18n.F("note"), i18n.F("note")},
	}
}

func markKindOf(kind finding.MarkKind) (of markKind) {
	for _, k := range markKinds() {
		if k.kind == kind {
			of = k
		}
	}
	return of
}
