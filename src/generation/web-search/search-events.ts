// Recognizes the events of the server's own web searches, for formats that do not show them. No side effects.
import type { GenerationEvent, SearchEvent } from '../types.js';

const TYPES: ReadonlySet<GenerationEvent['type']> = new Set<SearchEvent['type']>([
  'search_called',
  'search_started',
  'search_finished',
  'continued',
]);

export const isSearchEvent = (event: GenerationEvent): event is SearchEvent => TYPES.has(event.type);
