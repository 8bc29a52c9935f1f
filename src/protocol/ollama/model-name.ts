// Model names as Ollama's clients write them: `hal-1.0:latest` stands for `hal-1.0`.
import { ApiError } from '../../shared/errors.js';

const LATEST = ':latest';

/** The name with a tag, as listed by Ollama. */
export const taggedName = (name: string): string => (name.includes(':') ? name : `${name}${LATEST}`);

/** Calls `find` with the name and, if there is no such model, without `:latest`. Throws the first ApiError. */
export function findTagged<T>(name: string, find: (name: string) => T): T {
  try {
    return find(name);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'model_not_found' || !name.endsWith(LATEST)) throw error;
    try {
      return find(name.slice(0, -LATEST.length));
    } catch (second) {
      throw second instanceof ApiError && second.code === 'model_not_found' ? error : second;
    }
  }
}
