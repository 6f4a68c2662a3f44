DROP TABLE admission_seqs;
