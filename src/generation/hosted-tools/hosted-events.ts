// Recognizes the events of tools that the server runs itself, for API formats that do not show such events. No side
// effects.
import type { GenerationEvent, HostedEvent } from '../types.js';

const TYPES: ReadonlySet<GenerationEvent['type']> = new Set<HostedEvent['type']>([
  'hosted_called',
  'search_started',
  'search_finished',
  'mcp_listing_started',
  'mcp_listing_finished',
  'mcp_started',
  'mcp_finished',
  'mcp_approval',
  'continued',
]);

export const isHostedEvent = (event: GenerationEvent): event is HostedEvent => TYPES.has(event.type);
