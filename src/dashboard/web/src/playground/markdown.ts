// Parses the Markdown subset that responses are shown with: fenced code and inline code. All other text is unchanged.
// Returns data, never markup, so model output cannot become part of the page. Works on incomplete text.

export type Inline = { code: boolean; text: string };
export type Block = { kind: 'text'; text: string } | { kind: 'code'; language: string; text: string; closed: boolean };

/** The start of a JSON object, or of an array of objects. Prose rarely starts like this. */
const JSON_START = /^\s*(?:\[\s*)*\{\s*(?:"|$)/;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;

export function blocksOf(markdown: string): Block[] {
  const json = jsonBlock(markdown);
  if (json !== null) return [json];
  const blocks: Block[] = [];
  let text: string[] = [];
  let code: { fence: string; language: string; lines: string[] } | null = null;
  const flush = (): void => {
    const joined = text.join('\n').replace(/^\n+|\n+$/g, '');
    if (joined.trim() !== '') blocks.push({ kind: 'text', text: joined });
    text = [];
  };
  for (const line of markdown.split('\n')) {
    if (code !== null) {
      const { fence, language, lines } = code;
      const trimmed = line.trim();
      if (trimmed.length >= fence.length && trimmed === fence[0]!.repeat(trimmed.length)) {
        blocks.push({ kind: 'code', language, text: lines.join('\n'), closed: true });
        code = null;
      } else lines.push(line);
      continue;
    }
    const opening = FENCE.exec(line);
    if (opening === null) {
      text.push(line);
      continue;
    }
    flush();
    code = { fence: opening[1]!, language: (opening[2] ?? '').trim().split(/\s/)[0]!.slice(0, 30), lines: [] };
  }
  if (code !== null) blocks.push({ kind: 'code', language: code.language, text: code.lines.join('\n'), closed: false });
  flush();
  return blocks;
}

/**
 * Inline code is enclosed by two runs of equally many backticks on one line. Runs in one pass, because a model may
 * output nothing but backticks.
 */
export function inlinesOf(text: string): Inline[] {
  const inlines: Inline[] = [];
  let plain = 0; // start of the text that is not yet known to be code
  for (let start = 0; start <= text.length; ) {
    const end = text.indexOf('\n', start) === -1 ? text.length : text.indexOf('\n', start);
    const runs = [...text.slice(start, end).matchAll(/`+/g)].map((match) => ({
      at: start + match.index,
      length: match[0].length,
    }));
    const nextOf = new Map<number, number>(); // for each run length, the next run to the right
    const closing = runs.map(() => -1);
    for (let run = runs.length - 1; run >= 0; run--) {
      closing[run] = nextOf.get(runs[run]!.length) ?? -1;
      nextOf.set(runs[run]!.length, run);
    }
    for (let run = 0; run < runs.length; run++) {
      if (closing[run] === -1) continue;
      const { at, length } = runs[run]!;
      run = closing[run]!;
      const close = runs[run]!.at;
      if (at > plain) inlines.push({ code: false, text: text.slice(plain, at) });
      inlines.push({ code: true, text: text.slice(at + length, close) });
      plain = close + length;
    }
    start = end + 1;
  }
  if (plain < text.length) inlines.push({ code: false, text: text.slice(plain) });
  return inlines;
}

/**
 * A response that is a JSON object or array of objects, or the start of one, is shown as code and formatted once
 * complete. Null if it is neither.
 */
function jsonBlock(text: string): Block | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return { kind: 'code', language: 'json', text: JSON.stringify(JSON.parse(text), null, 2), closed: true };
  } catch {
    return JSON_START.test(text) ? { kind: 'code', language: 'json', text: text.trim(), closed: false } : null;
  }
}
