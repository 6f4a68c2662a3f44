package report

import (
	_ "embed"
	"html/template"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/steps"
)

//go:embed player.js
var playerJS string

// PlayerJS is the module that plays a picture. It imports nothing: the page of the laboratory and a report have it.
func PlayerJS() string { return playerJS }

// PlayerScript plays the pictures of a page that has their steps, each behind its picture: it is the page's module.
func PlayerScript() template.JS { return template.JS(playerJS + playAll) }

// playAll makes players of the pictures of a report. Everything is told there already: a player stands at the end, and
// asks nothing.
const playAll = `
for (const steps of document.querySelectorAll('figure > script[type="application/json"]')) {
  const figure = steps.parentElement;
  const one = player(figure.querySelector('.scroll'), { asks: false, start: Infinity });
  figure.append(one.element);
  one.tell(JSON.parse(steps.textContent));
}
`

// Player is what the module needs to play a picture, in one language.
type Player struct {
	Words  map[string]string `json:"words"`
	Actors []playerActor     `json:"actors"`
	Stores []string          `json:"stores"`
	Stock  string            `json:"stock"` // whose it is; "": nothing is known of it
	Steps  []playerStep      `json:"steps"`
	Asks   []playerAsk       `json:"asks"`
}

type playerActor struct {
	Name   string `json:"name"`
	Letter string `json:"letter"`
	Colour string `json:"colour"` // a class
}

type playerStep struct {
	AtMS   float64       `json:"at_ms"`
	When   string        `json:"when"`
	Says   string        `json:"says"`
	Tone   string        `json:"tone"` // "wrong", "cause" or ""
	Keys   []playerKey   `json:"keys"`
	Stock  *int64        `json:"stock"`
	Actors []playerState `json:"actors"`
}

// playerKey is what a store has. Who is the number of the actor, from 1; 0: none that the picture has.
type playerKey struct {
	Text string `json:"text"` // "": nothing
	Who  int    `json:"who"`
}

type playerState struct {
	Does finding.SpanKind `json:"does"`
	Says string           `json:"says"`
}

// playerAsk is a question before a step. Its first answer is right, or its second one.
type playerAsk struct {
	Step    int       `json:"step"`
	Answers [2]string `json:"answers"`
	Right   int       `json:"right"`
}

// NewPlayer returns what plays a picture in a language.
func NewPlayer(w finding.Witness, l i18n.Language) Player {
	r, index := steps.New(w), newActorIndex(w)
	p := Player{Words: playerWords(l), Actors: []playerActor{}, Stores: []string{}, Steps: []playerStep{}, Asks: []playerAsk{}}
	for i, name := range r.Actors {
		p.Actors = append(p.Actors, playerActor{r.Names[i].In(l), letter(index[name]), colour(index[name])})
	}
	for _, name := range r.Stores {
		p.Stores = append(p.Stores, i18n.Name(name).In(l))
	}
	for _, s := range r.Steps {
		one := playerStep{AtMS: s.At, When: when(s.At).In(l), Says: s.Says.In(l), Stock: s.After.Stock, Keys: []playerKey{}, Actors: []playerState{}}
		switch {
		case s.Wrong:
			one.Tone = "wrong"
		case s.Cause:
			one.Tone = "cause"
		}
		for _, k := range s.After.Keys {
			key := playerKey{Text: k.Text.In(l)}
			for i, name := range r.Actors {
				if name == k.Who {
					key.Who = i + 1
				}
			}
			one.Keys = append(one.Keys, key)
		}
		for _, a := range s.After.Actors {
			one.Actors = append(one.Actors, playerState{a.Does, stateOf(a).In(l)})
		}
		if s.After.Stock != nil {
			p.Stock = i18n.F("stock").In(l)
		}
		p.Steps = append(p.Steps, one)
	}
	for _, a := range r.Asks {
		right := (a.Step + len(r.Steps)) % 2 // as it comes, and the same each time
		ask := playerAsk{Step: a.Step, Right: right}
		ask.Answers[right], ask.Answers[1-right] = r.Steps[a.Step].Says.In(l), a.Other.In(l)
		p.Asks = append(p.Asks, ask)
	}
	return p
}

// stateOf names what an actor is in.
func stateOf(a steps.Actor) i18n.Text {
	does := a.Label
	switch {
	case !does.IsZero():
	case a.Does == finding.Waits:
		does = i18n.F("waits for the lock")
	case a.Does == finding.Held:
		does = i18n.F("holds the lock")
	case a.Does == finding.Reads:
		does = i18n.F("holds it as a reader")
	case a.Does == finding.Believes:
		does = i18n.F("believes that it holds the lock, and does not")
	case a.Does == finding.Down:
		does = i18n.F("killed")
	}
	switch {
	case !a.Stopped:
		return does
	case does.IsZero():
		return i18n.F("stands still")
	}
	return i18n.List(i18n.F("stands still"), does)
}

// when is the time of a step.
func when(ms float64) i18n.Text {
	u := unitOf(ms)
	switch at := ms / u.ms; {
	case u.name == "s":
		return i18n.F("%.2f s", at)
	case at < 10:
		return i18n.F("%.1f ms", at)
	default:
		return i18n.F("%.0f ms", at)
	}
}

func playerWords(l i18n.Language) map[string]string {
	words := map[string]string{}
	for key, text := range map[string]i18n.Text{
		"player": i18n.F("Step by step"),
		"line":   i18n.F("The steps"),
		"play":   i18n.F("Play"), "pause": i18n.F("Pause"),
		"first": i18n.F("To the beginning"), "back": i18n.F("Step back"), "on": i18n.F("Step forward"), "last": i18n.F("To the end"),
		"speed": i18n.F("Speed"), "time": i18n.F("True time"),
		"ask": i18n.F("What happens next?"), "right": i18n.F("Right."), "wrong": i18n.F("No: it was this."),
		"free": i18n.F("no key"), "nothing": i18n.Plain("–"),
		"step": i18n.F("Step {n} of {of}"),
	} {
		words[key] = text.In(l)
	}
	return words
}
