package probe

// Promise is one of lockstep's promises and whether it holds on the target.
type Promise struct {
	Name  string `json:"promise"`
	Holds string `json:"holds"` // Yes, No or Unknown
	How   string `json:"how"`   // by what it holds, or which fact fails
}

// Whether a promise holds.
const (
	Yes     = "yes"
	No      = "no"
	Unknown = "unknown" // a fact that it needs could not be tried
)

// promises judges by the facts' results.
func promises(results map[string]string) []Promise {
	return []Promise{
		all(promiseCopy, results, "sequences count the records, and headers pass through", factProducer, factFetched, factRepeat, factSkip, factTimes),
		all(promiseTranslate, results, "the target's headers and the state topic tell", factHeaders, factCompacted),
		sealing(results),
		all(promiseLedger, results, "the state topic keeps it", factCompacted),
	}
}

// all is a promise that needs every one of the facts.
func all(name string, results map[string]string, how string, needs ...string) Promise {
	p := Promise{Name: name, Holds: Yes, How: how}
	for _, need := range needs {
		switch {
		case results[need] == Failed:
			return Promise{name, No, "fails: " + need}
		case results[need] != OK && p.Holds == Yes:
			p.Holds, p.How = Unknown, "not tried: "+need
		}
	}
	return p
}

// sealing: one of the two ways is enough; without any, only the next batch ends what came before.
func sealing(results map[string]string) Promise {
	p := all(promiseSeal, results, "", factEpoch, factInvisible)
	switch {
	case p.Holds != Yes:
		return p
	case results[factDirect] == OK:
		p.How = "seal: direct"
	case results[factTxn] == OK:
		p.How = "seal: by transaction, read back from each partition; Alter on the cluster would allow the faster direct way"
	default:
		p.Holds, p.How = No, "no seal: a stale writer is ended only by the next batch (the facts tell what would allow one)"
	}
	return p
}

// Broken returns the promises that do not hold, or of which nobody can say.
func (r Report) Broken() (out []Promise) {
	for _, p := range r.Promises {
		if p.Holds != Yes {
			out = append(out, p)
		}
	}
	return out
}
