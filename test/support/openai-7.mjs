// For `node --import`: modules that import the package openai get version 7 of it.
import { register } from 'node:module';

const hook = `export function resolve(specifier, context, next) {
  return next(specifier === 'openai' || specifier.startsWith('openai/') ? 'openai-7' + specifier.slice(6) : specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
