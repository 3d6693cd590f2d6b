export const createClient = 5
