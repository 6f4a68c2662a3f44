package payment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// notInHundredths are the currencies of ISO 4217 whose minor unit is not a hundredth. Those without a decimal come
// first, then those with three, then those with four.
var notInHundredths = strings.Fields(`
	BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF
	BHD IQD JOD KWD LYD OMR TND
	CLF UYW`)

// CheckCurrency returns an error that says what is wrong with a currency. All amounts here are hundredths, which the
// pages divide by 100: a provider takes 8000 of a currency without hundredths for a hundred times as much as the buyer
// was shown.
func CheckCurrency(code string) error {
	switch {
	case len(code) != 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return errors.New("want the three letters of ISO 4217, EUR for instance")
	case slices.Contains(notInHundredths, code):
		return fmt.Errorf("the minor unit of %s is not a hundredth, and all prices are in hundredths: choose another currency", code)
	}
	return nil
}
