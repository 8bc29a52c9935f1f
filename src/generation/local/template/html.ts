// HTML escaping as in the markupsafe library.
import { piecesSteps } from './limits.js';
import { str } from './print.js';
import type { Run } from './run.js';
import { Markup, type Value } from './values.js';

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** Markup is left unchanged. */
export function escapeHtml(run: Run, value: Value): string {
  if (value instanceof Markup) return value.text;
  const text = str(run, value);
  run.spend(piecesSteps(text.length >> 2, 4));
  return text.replace(/[&<>'"]/g, (character) => ESCAPES[character] as string);
}

const ENTITY = /&(?:amp|lt|gt|quot|apos|nbsp|#(\d{1,7})|#[xX]([\da-fA-F]{1,6}));/g;
const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/** Replaces entities with their characters. Named entities other than the six basic ones of HTML are left unchanged. */
export function unescapeHtml(text: string): string {
  return text.replace(ENTITY, (whole, decimal?: string, hex?: string) => {
    const named = NAMED[whole.slice(1, -1)];
    if (named !== undefined) return named;
    const code = decimal !== undefined ? Number(decimal) : parseInt(hex as string, 16);
    return code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? '\ufffd' : String.fromCodePoint(code);
  });
}

/** Removes comments and tags in linear time. An unclosed tag or comment is kept, like everything after it. */
export function withoutTags(text: string): string {
  let result = '';
  let done = 0;
  const lastComment = text.lastIndexOf('-->');
  for (let open = text.indexOf('<'); open !== -1; open = text.indexOf('<', Math.max(done, open + 1))) {
    const comment = text.startsWith('<!--', open) && open + 4 <= lastComment;
    const close = comment ? text.indexOf('-->', open + 4) : text.indexOf('>', open);
    if (close === -1) break;
    result += text.slice(done, open);
    done = close + (comment ? 3 : 1);
  }
  return result + text.slice(done);
}
