/** The engine's maximum number of tools in a request. Upper bound of the setting `limits.max_tools`. */
export const MAX_TOOLS = 4_096;
