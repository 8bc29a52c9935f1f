// The instruction that describes the output format to the model. Decoding enforces the format anyway, but a model that
// does not know the format would be forced into it token by token, which degrades the content. No side effects.
import { stringifyExact } from '../../shared/exact-json.js';
import { isGbnf } from '../output-format.js';
import type { OutputFormat } from '../types.js';

/** Returns null if the output is unconstrained. */
export function formatInstruction(format: OutputFormat): string | null {
  switch (format.type) {
    case 'text':
      return null;
    case 'json_object':
      return 'Answer with one JSON object and nothing else: no explanation, no code fence.';
    case 'json_schema':
      return (
        'Answer with one JSON value that is valid under the following JSON Schema, and nothing else: no explanation, no code fence.\n' +
        stringifyExact(format.schema)
      );
    case 'regex':
      return `Answer with text that this regular expression matches as a whole, and nothing else:\n${format.pattern}`;
    case 'grammar':
      return `Answer with text of this grammar (${isGbnf(format.grammar) ? 'GBNF), beginning at its rule root' : 'Lark), beginning at its rule start'}, and nothing else:\n${format.grammar}`;
    case 'choice':
      return `Answer with one of these texts, word for word and without quotation marks, and nothing else:\n${JSON.stringify(format.choices)}`;
  }
}
