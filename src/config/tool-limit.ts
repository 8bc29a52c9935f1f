/** Maximum number of tools in a request, a limit of the engine. The setting `limits.max_tools` is at most this. */
export const MAX_TOOLS = 4_096;
