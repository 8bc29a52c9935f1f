// For `node --import`: modules that import the `openai` package get its version 7.
import { register } from 'node:module';

const hook = `export function resolve(specifier, context, next) {
  return next(specifier === 'openai' || specifier.startsWith('openai/') ? 'openai-7' + specifier.slice(6) : specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
