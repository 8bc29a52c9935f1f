// Where a JSON object's own members stand in its text: numbers keep all their digits there. Pure.
import { At, JsonScanner } from './json-scanner.js';

/** Of a JSON object's text: what stands for each of its own members. */
export function valueSpans(text: string): Map<string, string> {
  const spans = new Map<string, string>();
  const scanner = new JsonScanner();
  let key = 0; // where the last key of the object itself began
  let value = -1; // and its value
  for (let index = 0; index < text.length; index++) {
    const { at, depth } = scanner;
    if (!scanner.accept(text.charCodeAt(index))) return spans; // nested too deep, or the end
    if (depth !== 1) continue;
    const now: At = scanner.at;
    if ((at === At.FirstKey || at === At.Key) && now === At.String) key = index;
    if (at === At.Colon && now === At.Value) value = index + 1;
    if (value === -1 || (now !== At.Key && now !== At.Done)) continue;
    spans.set(JSON.parse(text.slice(key, value - 1)) as string, text.slice(value, index).trim());
    value = -1;
  }
  return spans;
}
