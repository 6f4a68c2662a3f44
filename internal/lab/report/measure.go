package report

import "unicode/utf8"

// widths are those of DejaVu Sans, of the characters from space to ~, in hundredths
// of the font's size.
var widths = [...]uint8{
	32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34,
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 53,
	100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
	60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50,
	50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61,
	63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
}

// bolder is how much wider bold text is.
const bolder = 1.14

// textWidth is the width of a text.
func textWidth(text string, size float64) float64 {
	sum := 0
	for _, r := range text {
		if i := int(r) - ' '; i >= 0 && i < len(widths) {
			sum += int(widths[i])
		} else {
			sum += 100
		}
	}
	return float64(sum) / 100 * size
}

// fitText shortens a text to a width.
func fitText(text string, size, width float64) string {
	if textWidth(text, size) <= width {
		return text
	}
	for text != "" {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
		if textWidth(text+"…", size) <= width {
			return text + "…"
		}
	}
	return ""
}
