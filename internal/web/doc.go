// Package web is the site for browsers: the buyers' page and the console, their style sheet, their modules and their
// messages.
//
// The files are embedded and served as they are. There is no build step: the modules in static import each other by
// relative paths, and the browser is the only program that reads them.
//
//	pages/     a template for each page, rendered once at the start
//	static/    one style sheet, ES modules, an icon
//	messages/  a file for each language; all have the same keys. A page gets those that it mentions
//
// The static files are served below a folder that is named after a hash of all of them, so they may be kept for ever:
// another version has another folder. The pages themselves are asked for again each time, and are usually answered with
// 304.
//
// The modules make elements and set their text; nothing is parsed as HTML, nothing is inline, and nothing comes from
// another origin. The Content-Security-Policy says so, and the browser enforces it.
package web
