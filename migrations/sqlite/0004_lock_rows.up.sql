-- These locks need MySQL or MariaDB. The number is taken here so that both schemas
-- count alike.
SELECT 1;
