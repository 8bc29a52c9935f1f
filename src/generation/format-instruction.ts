// Telling a model what form its answer must have. Decoding is not constrained to the form: without being
// told, a model could not know it, and the answer would fail the check on its way out. Pure.
import type { OutputFormat } from './types.js';

/** Null where any text will do. */
export function formatInstruction(format: OutputFormat): string | null {
  switch (format.type) {
    case 'text': return null;
    case 'json_object': return 'Answer with one JSON object and nothing else: no explanation, no code fence.';
    case 'json_schema':
      return 'Answer with one JSON value that is valid under the following JSON Schema, and nothing else: no explanation, no code fence.\n' +
        JSON.stringify(format.schema);
  }
}
