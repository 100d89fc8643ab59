// Searches the documentation site. Reads the records of search-index.js: address, page title, section title, text. Makes no
// requests, so that it works for a site that was opened as files.
"use strict";

(() => {
    const MAX_RESULTS = 30;
    const EXCERPT = 220;

    const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

    const records = window.searchIndex.map(([address, page, section, text]) => ({
        address, page, section, text,
        lowerText: text.toLowerCase(),
        lowerTitle: `${page} ${section}`.toLowerCase(),
        words: new Set(wordsOf(text)),
        titleWords: new Set(wordsOf(`${page} ${section}`)),
    }));

    // Rates a match: a complete word, the start of a word, or a part.
    function fit(word, words, text) {
        if (words.has(word)) return 1;
        if (word.length < 3 || !text.includes(word)) return 0;
        return text.search(new RegExp(`(?<![\\p{L}\\p{N}_])${word}`, "u")) >= 0 ? 0.6 : 0.3;
    }

    // Finds sections with the words. Rare words count more, and matching all words counts more than frequent matches of a few.
    function search(query) {
        const words = [...new Set(wordsOf(query))];
        const phrase = query.trim().toLowerCase().replace(/\s+/g, " ");
        const fits = records.map((record) => words.map((word) => [
            fit(word, record.titleWords, record.lowerTitle),
            fit(word, record.words, record.lowerText),
        ]));
        const weights = words.map((_, index) => {
            const count = fits.filter((fit) => fit[index][0] + fit[index][1] > 0).length;
            return count === 0 ? 0 : Math.log(1 + records.length / count);
        });
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        if (total === 0) return [];
        const results = records.map((record, number) => {
            let score = 0;
            let found = 0;
            fits[number].forEach(([title, text], index) => {
                score += weights[index] * (2 * title + text);
                found += weights[index] * Math.max(title, text);
            });
            score *= (found / total) ** 2;
            if (words.length > 1 && record.lowerText.includes(phrase)) score *= 3;
            if (record.section.toLowerCase() === phrase || record.page.toLowerCase() === phrase) score *= 5;
            // A code in pasted output belongs to one section, which comes first.
            if (/^C\d{3}$/.test(record.section) && words.includes(record.section.toLowerCase())) {
                return { record, score: Number.MAX_VALUE, share: 1 };
            }
            return { record, score: score / (1 + Math.log(1 + record.text.length / 800)), share: found / total };
        });
        const best = Math.max(...results.map(({ share }) => share));
        return results
            .filter(({ score, share }) => score > 0 && share >= best / 2)
            .sort((a, b) => b.score - a.score)
            .slice(0, MAX_RESULTS)
            .map(({ record }) => record);
    }

    // Returns the part of the text that matches the query best.
    function excerpt(record, words, phrase) {
        let start = phrase.length > 3 ? record.lowerText.indexOf(phrase) : -1;
        if (start < 0) {
            const places = words.filter((word) => word.length > 1).map((word) => record.lowerText.indexOf(word));
            const found = places.filter((place) => place >= 0);
            const near = (place) => found.filter((other) => other >= place && other < place + EXCERPT).length;
            start = found.sort((a, b) => near(b) - near(a) || a - b)[0] ?? 0;
        }
        start = Math.max(0, start - 40);
        if (start > 0) start = record.text.indexOf(" ", start) + 1;
        let end = Math.min(record.text.length, start + EXCERPT);
        if (end < record.text.length) end = Math.max(record.text.lastIndexOf(" ", end), start + EXCERPT / 2);
        return (start > 0 ? "… " : "") + record.text.slice(start, end) + (end < record.text.length ? " …" : "");
    }

    function appendMarked(element, text, words) {
        const long = words.filter((word) => word.length > 1).sort((a, b) => b.length - a.length);
        const parts = long.length === 0 ? [text] : text.split(new RegExp(`(${long.join("|")})`, "giu"));
        parts.forEach((part, index) => {
            if (index % 2 === 0) {
                element.append(part);
            } else {
                const mark = document.createElement("mark");
                mark.textContent = part;
                element.append(mark);
            }
        });
    }

    function show(query) {
        const status = document.getElementById("page-status");
        const list = document.getElementById("page-results");
        list.replaceChildren();
        const words = wordsOf(query);
        if (words.length === 0) {
            status.textContent = "Type words, a code (C014), a function or an error message above.";
            return;
        }
        const results = search(query);
        const count = results.length === MAX_RESULTS ? `The best ${MAX_RESULTS} sections`
            : results.length === 1 ? "1 section" : `${results.length} sections`;
        status.textContent = `${results.length === 0 ? "Nothing" : count} found for “${query.trim()}”.`;
        for (const record of results) {
            const item = document.createElement("li");
            const link = document.createElement("a");
            link.href = record.address;
            link.textContent = record.section === "" ? record.page : `${record.page}: ${record.section}`;
            const text = document.createElement("p");
            appendMarked(text, excerpt(record, words, query.trim().toLowerCase()), words);
            item.append(link, text);
            list.append(item);
        }
    }

    const input = document.querySelector("input[name=q]");
    input.value = new URLSearchParams(location.search).get("q") ?? "";
    show(input.value);
    input.addEventListener("input", () => {
        show(input.value);
        try {
            history.replaceState(null, "", `?q=${encodeURIComponent(input.value)}`);
        } catch {
            // Some browsers forbid this for files.
        }
    });
    if (input.value === "") input.focus();
})();
