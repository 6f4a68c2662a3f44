package experiments

import (
	"cmp"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/witness"
)

// rushRetries is how often a buyer comes again, if it does: more often than others can be faster.
const rushRetries = 300

// retrying is a setup in which buyers who are told "busy" come again at once.
func retrying(s lab.Setup) lab.Setup {
	s.Retries = rushRetries
	return s
}

// fewAtATime makes as many buyers come as there are units, some of them at a time. They come again as often as the setup
// says.
func fewAtATime(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, rushStock)
	sale := t.Sale(setup.Policy, int64(n), t.API(setup.Instances))
	outcome := sale.SendLoad(load.Load{Buyers: n, Concurrency: rushAtOnce, Retries: setup.Retries})
	t.Load(outcome)
	evidence := sale.Evidence()
	evidence.Refused = []int64{}
	for _, a := range outcome.All {
		if a.Code != load.Created && (a.Code != load.Busy || a.Try == setup.Retries) {
			evidence.Refused = append(evidence.Refused, a.User)
		}
	}
	t.Measure(i18n.F("sold"), float64(evidence.Audit.Orders), i18n.F("of %d", n))
	if setup.Retries > 0 {
		t.Measure(i18n.F("attempts for each order"), float64(len(outcome.All))/float64(max(evidence.Audit.Orders, 1)), i18n.Text{})
	}
	if len(evidence.Refused) > 0 {
		drawConflict(t, evidence)
	} else {
		drawRetries(t, evidence)
	}
	t.Judge(evidence)
}

// drawRetries draws the buyer who was refused most often before he had a unit, if there is one.
func drawRetries(t *lab.Trial, evidence judge.Evidence) {
	of := map[string][]*judge.Transaction{} // by the buyer
	var most []*judge.Transaction
	attempts := 0
	for _, tx := range judge.NewHistory(evidence).Transactions {
		if tx.Write == nil || tx.Write.Mode != eventlog.ModeVersion || tx.Ended == nil || tx.Under == nil {
			continue
		}
		attempts++
		of[tx.By.Who] = append(of[tx.By.Who], tx)
		if all := of[tx.By.Who]; len(all) > len(most) && len(all) <= mostDrawn && tx.Committed() != nil {
			most = all
		}
	}
	if len(most) < 2 {
		return
	}
	first, last := most[0], most[len(most)-1]
	t.Witness(witness.Tell(evidence, witness.Story{
		Key: last.Under.Key, Who: []string{last.By.Who}, From: first.Began, To: last.Ended.At,
		Summary: i18n.F("%s is refused %d times, each time because another buyer has changed the version that it read. It reads again, and has a unit at %s. All together %d orders took %d attempts.",
			i18n.Name(last.By.Who), len(most)-1, witness.At(last.Ended.At), evidence.Audit.Orders, attempts),
	}))
}

// mostDrawn is how many attempts of a buyer a picture has.
const mostDrawn = 5

// drawConflict draws two buyers who have read the same version. One of them is refused.
func drawConflict(t *lab.Trial, evidence judge.Evidence) {
	won := map[int64]*judge.Transaction{}                        // by the version
	for _, tx := range judge.NewHistory(evidence).Transactions { // by their ends
		if tx.Write == nil || tx.Write.Mode != eventlog.ModeVersion || tx.Ended == nil || tx.Under == nil {
			continue
		}
		version := tx.Write.Version
		if tx.Committed() != nil {
			won[version] = tx
			continue
		}
		first := won[version]
		if first == nil {
			continue
		}
		w := witness.Tell(evidence, witness.Story{
			Kind: finding.Undersold, Key: tx.Under.Key, Who: []string{first.By.Who, tx.By.Who}, From: min(first.Began, tx.Began), To: tx.Ended.At,
			Summary: i18n.F("%s and %s both read version %d; %s writes first, at %s, and %s is refused at %s. It is told that the service is busy, as are %d others; at the end %d units are left.",
				i18n.Name(first.By.Who), i18n.Name(tx.By.Who), version, i18n.Name(first.By.Who), witness.At(first.Ended.At),
				i18n.Name(tx.By.Who), witness.At(tx.Ended.At), len(evidence.Refused)-1, evidence.Audit.Stock),
		})
		for _, lane := range w.Lanes {
			for i, m := range lane.Marks {
				lane.Marks[i].Wrong = lane.Role == finding.Database && m.Kind == finding.Refuses
			}
		}
		t.Witness(w)
		return
	}
}
